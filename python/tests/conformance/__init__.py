"""The conformance runner: cases of other systems, as data, over the Python API."""
