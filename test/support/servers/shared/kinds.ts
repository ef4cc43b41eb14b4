/** The servers that test files share. */
export type SharedKind =
  | 'redis'
  | 'postgres-embedded'
  | 'postgres-installed'
  | 'mariadb'
  | 'rabbitmq'
  | 'nats'
  | 'mosquitto';

/** What a file receives about one. */
export interface SharedServer {
  /** Of a PostgreSQL: the URL of the database from which others are created; of a MariaDB: that of the server. */
  readonly url: string;
  readonly port: number;
  /** Of a RabbitMQ: its folder. */
  readonly dir?: string;
}
