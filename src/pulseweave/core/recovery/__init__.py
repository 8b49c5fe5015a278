"""Recovery: the decisions by which an authorised person settles facts that execution could not."""
