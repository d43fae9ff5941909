"""``mqdssm validate``, and what validations that run every night need besides."""
