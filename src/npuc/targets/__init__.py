"""The chips: what each one takes, and the vendor tool that makes its file."""
