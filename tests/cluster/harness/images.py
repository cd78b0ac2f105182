"""The images under test: built where their sources changed, named after what is in them."""

import os

from tests.cluster.harness.shell import script

OFFICIAL_POSTGRES = "postgres:18"


def build_image() -> str:
    """The project's image, from its Dockerfile; or the one that AGENTRUN_TEST_IMAGE names."""
    return os.environ.get("AGENTRUN_TEST_IMAGE") or script("image", timeout=1800)


def postgres_image() -> str:
    """The official image where it can be had; a foreign cluster pulls it by itself."""
    if named := os.environ.get("AGENTRUN_TEST_POSTGRES_IMAGE"):
        return named
    if os.environ.get("AGENTRUN_TEST_KUBECONTEXT"):
        return OFFICIAL_POSTGRES
    return script("image", "postgres", timeout=1800)
