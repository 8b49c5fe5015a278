"""Alembic's environment: runs on the engine that ``store.migrate`` hands over."""

from alembic import context

from pulseweave.store.schema import metadata

with context.config.attributes["engine"].connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transaction_per_migration=True,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
