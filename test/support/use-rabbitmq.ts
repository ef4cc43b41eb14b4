import type { SharedServer } from './shared-servers/kinds.js';
import { useSharedServer } from './shared-servers/use-shared-server.js';

export type UsedRabbitMq = Required<SharedServer>;

/**
 * The RabbitMQ of all files: a queue needs a name that nobody else has. It is not to be stopped, killed or configured:
 * `startRabbitMq` is for that.
 */
export function useRabbitMq(): UsedRabbitMq {
  const server = useSharedServer('rabbitmq');
  return {
    get url() {
      return server().url;
    },
    get port() {
      return server().port;
    },
    get dir() {
      return server().dir!;
    },
  };
}
