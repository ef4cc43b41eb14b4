import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

const AMQP_PORT = 5672;

/** A proxy to the broker whose connections can be cut: the broker then redelivers unacknowledged messages. */
export class BrokerProxy {
  readonly #connections = new Set<Socket>();
  readonly #listener: Server;

  private constructor(private readonly broker: URL) {
    this.#listener = createServer((consumer) => this.#connect(consumer));
  }

  static async open(brokerUrl: string): Promise<BrokerProxy> {
    const proxy = new BrokerProxy(new URL(brokerUrl));
    proxy.#listener.listen(0, '127.0.0.1');
    await once(proxy.#listener, 'listening');
    return proxy;
  }

  /** The broker's URL through this proxy. */
  get url(): string {
    const url = new URL(this.broker);
    url.host = `127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
    return url.href;
  }

  cut(): void {
    for (const consumer of this.#connections) consumer.destroy();
  }

  close(): void {
    this.#listener.close();
    this.cut();
  }

  #connect(consumer: Socket): void {
    const { hostname, port } = this.broker;
    const broker = connect(port === '' ? AMQP_PORT : Number(port), hostname);
    this.#connections.add(consumer);
    for (const socket of [consumer, broker]) {
      socket.setNoDelay();
      // The 'close' event that follows is enough.
      socket.on('error', () => undefined);
    }
    consumer.on('close', () => {
      this.#connections.delete(consumer);
      broker.destroy();
    });
    broker.on('close', () => consumer.destroy());
    consumer.pipe(broker).pipe(consumer);
  }
}
