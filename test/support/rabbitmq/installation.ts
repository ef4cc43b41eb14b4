import { dirname, join } from 'node:path';
import { findExecutable, findServer } from '../servers/find-executable.js';

/** Debian's program on PATH changes to the user `rabbitmq`, who has no access here; this is the server's own. */
const DEBIAN_FOLDER = '/usr/lib/rabbitmq/bin';

/** The programs of an installation. */
export interface FoundRabbitMq {
  readonly server: string;
  readonly control: string;
  /** Erlang's register of nodes. */
  readonly epmd: string;
}

/** The rabbitmq-server that RABBITMQ_SERVER_BIN names, else Debian's, else one on PATH; with an Erlang. */
export function findRabbitMq(): FoundRabbitMq | undefined {
  const server = findServer('rabbitmq-server', 'RABBITMQ_SERVER_BIN', [DEBIAN_FOLDER]);
  const epmd = findExecutable('epmd');
  if (server === undefined || epmd === undefined) return undefined;
  return { server, control: join(dirname(server), 'rabbitmqctl'), epmd };
}
