import { type WayName, type Way, type WaySettings } from '../setup.js';

/** Each process loads what its own transport needs. */
export async function openWay(name: WayName, settings: WaySettings): Promise<Way> {
  switch (name) {
    case 'express':
    case 'fastify':
      return (await import('./http.js')).overHttp(settings, name);
    case 'graphql':
      return (await import('./graphql.js')).overGraphql(settings);
    case 'socket.io':
    case 'ws':
      return (await import('./socket.js')).overSockets(settings, name);
    case 'rabbitmq':
      return (await import('./rabbitmq.js')).overRabbitMq(settings);
    case 'call':
      return (await import('./call.js')).byCalls(settings);
  }
}
