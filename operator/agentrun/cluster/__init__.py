"""Objects and pods behind one port, with two adapters: ``kube`` and ``local``."""
