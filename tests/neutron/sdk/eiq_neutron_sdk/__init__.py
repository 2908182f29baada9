"""The stand-in under the name of NXP's package, see ../../standin_converter.py."""
