"""Administration: namespaces, applications, queues and tokens. Each change is audited."""
