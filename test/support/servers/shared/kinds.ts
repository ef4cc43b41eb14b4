/** The servers that test files share. */
export type SharedKind =
  'redis' | 'postgres-embedded' | 'postgres-installed' | 'rabbitmq' | 'nats' | 'mosquitto';

/** What a file receives about one. */
export interface SharedServer {
  /** Of a PostgreSQL: the URL of the database from which others are created. */
  readonly url: string;
  readonly port: number;
  /** Of a RabbitMQ: its folder. */
  readonly dir?: string;
}
