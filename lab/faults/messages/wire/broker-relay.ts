import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { ObservedConnection } from './observed-connection.js';
import type { WireLog } from './wire-log.js';

/**
 * The way of one consumer to the broker, listened to. It hears out a broker whose consumer has gone: how many messages
 * that one had is known only when the broker has sent its last.
 */
export class BrokerRelay {
  private readonly links = new Map<Socket, ObservedConnection>();
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly listener: Server,
    private readonly brokerPort: number,
    private readonly log: WireLog,
    private readonly consumer: () => string,
  ) {
    listener.on('connection', (socket) => this.join(socket));
  }

  /** @param consumer - the name of the consumer that now uses this relay. */
  static async start(
    brokerPort: number,
    log: WireLog,
    consumer: () => string,
  ): Promise<BrokerRelay> {
    const listener = createServer();
    const relay = new BrokerRelay(listener, brokerPort, log, consumer);
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return relay;
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  /**
   * Breaks, for both sides, the connections that something has been delivered on: `amqp-connection-manager` ends the
   * process of a consumer whose connection breaks before it has its channel.
   *
   * @returns whether there was one.
   */
  cut(): boolean {
    const used = [...this.links].filter(([, connection]) => connection.hasDelivered);
    for (const [consumer] of used) consumer.resetAndDestroy();
    return used.length > 0;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.listener.close();
    await once(this.listener, 'close');
  }

  private join(consumer: Socket): void {
    const broker = connect(this.brokerPort, '127.0.0.1');
    const connection = new ObservedConnection(this.log, this.consumer());
    this.links.set(consumer, connection);
    for (const socket of [consumer, broker]) {
      this.sockets.add(socket);
      socket.setNoDelay();
      // The close that follows says all there is to say.
      socket.on('error', () => undefined);
      socket.once('close', () => this.sockets.delete(socket));
    }
    consumer.on('data', (chunk: Buffer) => {
      connection.fromConsumer(chunk);
      if (broker.writable) broker.write(chunk);
    });
    broker.on('data', (chunk: Buffer) => {
      connection.fromBroker(chunk);
      if (consumer.writable) consumer.write(chunk);
    });
    consumer.once('close', () => {
      this.links.delete(consumer);
      broker.end();
    });
    broker.once('close', () => {
      connection.end();
      consumer.end();
    });
  }
}
