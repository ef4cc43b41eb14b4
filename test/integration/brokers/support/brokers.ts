import { findMosquitto, startMosquitto } from '../../../support/servers/mosquitto-server.js';
import { findNats, startNats } from '../../../support/servers/nats-server.js';
import { startRabbitMq } from '../../../support/rabbitmq/rabbitmq-server.js';
import { findRabbitMq } from '../../../support/rabbitmq/installation.js';
import type { Place, StartedServer } from '../../../support/servers/start-server.js';

export interface Broker {
  readonly name: string;
  readonly isInstalled: boolean;
  /** The minimum number of processes, helper processes included. */
  readonly processes: number;
  readonly start: (place?: Place) => Promise<StartedServer>;
}

export const brokers: readonly Broker[] = [
  {
    name: 'RabbitMQ',
    isInstalled: findRabbitMq() !== undefined,
    processes: 2,
    start: startRabbitMq,
  },
  {
    name: 'NATS',
    isInstalled: findNats() !== undefined,
    processes: 1,
    start: (place) => startNats({ ...place, jetStream: true }),
  },
  {
    name: 'Mosquitto',
    isInstalled: findMosquitto() !== undefined,
    processes: 1,
    start: startMosquitto,
  },
];
