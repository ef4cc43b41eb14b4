/** The servers that test files share. */
export type SharedKind =
  'redis' | 'postgres-embedded' | 'postgres-installed' | 'rabbitmq' | 'nats' | 'mosquitto';

/** What a file is told of one. */
export interface SharedServer {
  /** Of a PostgreSQL: the URL of the database in which others are made. */
  readonly url: string;
  readonly port: number;
  /** Of a RabbitMQ: its folder. */
  readonly dir?: string;
}
