"""Change notifications: messages, receivers, and the directory that they tell of."""
