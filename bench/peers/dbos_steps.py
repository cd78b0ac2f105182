"""DBOS: a workflow whose steps return what the model and the tool said; each result is a row.

Its rows are small and do not grow with the conversation, as ours do not. It does not fence.
"""

# mypy: disable-error-code="import-not-found,untyped-decorator"
# Its libraries are not those of this project: they are in the interpreter that --peers names.

from __future__ import annotations

from importlib.metadata import version

from dbos import DBOS, DBOSConfig

from bench.peers.common import Meter, read_task


def main() -> None:
    """Play the window, as one workflow."""
    task = read_task()
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": task.dsn,
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    def model(index: int) -> str:
        return task.measured[index][0]

    @DBOS.step()
    def tool(index: int) -> str:
        return task.measured[index][1]

    @DBOS.workflow()
    def run() -> None:
        meter = Meter(task)
        for index in range(len(task.measured)):
            for step in (model, tool):
                step(index)
                if index:
                    meter.step()
                else:
                    meter.start()
        meter.report(dbos=version("dbos"))

    DBOS.launch()
    run()
    DBOS.destroy()


main()
