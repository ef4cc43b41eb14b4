import type { SharedServer } from '../servers/shared/kinds.js';
import { sharedServer } from '../servers/shared/shared-server.js';
import { useServer } from '../servers/use-server.js';

export type UsedRabbitMq = Required<SharedServer>;

/**
 * The RabbitMQ of all files: a queue needs a unique name. Do not stop, kill or configure it: use
 * `useServer(startRabbitMq)` for that.
 */
export function useRabbitMq(): UsedRabbitMq {
  return useServer(() => sharedServer('rabbitmq') as Promise<UsedRabbitMq>);
}
