/** The part of a client of ioredis that opens its sockets. Not documented by ioredis. */
export interface SocketOpener {
  readonly connector?: Connector;
}

interface Connector {
  readonly stream?: ErrorEmitter;
  connect?: (...args: unknown[]) => Promise<ErrorEmitter>;
  /** Of Sentinels only. */
  connectToSentinel?: (...args: unknown[]) => SocketOpener;
}

interface ErrorEmitter {
  on(event: 'error', listener: () => void): unknown;
}

interface ClusterNodes {
  on(event: '+node', listener: (node: NodeOfCluster) => void): unknown;
}

interface NodeOfCluster extends SocketOpener {
  duplicate?: (...args: unknown[]) => SocketOpener;
}

/**
 * Listens to the errors of each socket of a client until it is closed. ioredis listens to the first one only: where a TLS
 * handshake is ended, its failure and the server's alert are two, and the second one would end the process.
 */
export function listenToSockets<Client extends SocketOpener>(client: Client): Client {
  const { connector } = client;
  const connect = connector?.connect?.bind(connector);
  if (connector === undefined || connect === undefined) return client;
  connector.connect = (...args) => {
    const connected = connect(...args);
    connected.then((socket) => socket.on('error', ignore), ignore);
    return connected;
  };
  const connectToSentinel = connector.connectToSentinel?.bind(connector);
  if (connectToSentinel !== undefined) {
    connector.connectToSentinel = (...args) => listenToSockets(connectToSentinel(...args));
  }
  // One that connects as soon as it is created opens its socket before this.
  process.nextTick(() => connector.stream?.on('error', ignore));
  return client;
}

/** The same for each connection of a cluster's client, also for those that read its slot map. */
export function listenToNodes<Cluster extends ClusterNodes>(cluster: Cluster): Cluster {
  cluster.on('+node', (node) => {
    listenToSockets(node);
    const duplicate = node.duplicate?.bind(node);
    if (duplicate !== undefined) {
      node.duplicate = (...args) => listenToSockets(duplicate(...args));
    }
  });
  return cluster;
}

function ignore(): void {
  // The client has reported the first one.
}
