import { connect, type Socket } from 'node:net';
import * as redis from '../internals/redis.js';

type Words = readonly redis.RedisArgument[];

class ErrorReply extends Error {}

/** One socket that speaks RESP2. */
class RespConnection implements redis.OrderedConnection {
  readonly socket: Socket;
  readonly order = new redis.ReplyOrder(this, (error) =>
    this.report({ kind: 'out_of_step', error }),
  );
  isReady = false;
  private readonly waiting: ((reply: unknown) => void)[] = [];
  private bytes = Buffer.alloc(0);

  /** @param onMessage - gets the channel of what arrives for one. */
  constructor(
    port: number,
    private readonly report: (event: redis.LinkEvent) => void,
    private readonly onMessage?: (channel: string) => void,
  ) {
    this.socket = connect(port, '127.0.0.1', () => {
      this.isReady = true;
      report({ kind: 'ready' });
    });
    this.socket.on('data', (bytes) => this.receive(Buffer.from(bytes)));
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => {
      this.isReady = false;
      report({ kind: 'lost' });
      for (const end of this.waiting.splice(0)) end(new Error('The connection is lost.'));
    });
  }

  get pending(): number {
    return this.waiting.length;
  }

  async send(...words: Words): Promise<unknown> {
    const lengthOf = (word: redis.RedisArgument) => `$${Buffer.byteLength(word)}\r\n`;
    const parts = words.flatMap((word) => [lengthOf(word), word, '\r\n']);
    const request = [`*${words.length}\r\n`, ...parts].map((part) => Buffer.from(part));
    this.socket.write(Buffer.concat(request));
    const reply = await new Promise((resolve) => this.waiting.push(resolve));
    if (reply instanceof Error) throw reply;
    return reply;
  }

  probe(text: string, argument: string): Promise<unknown> {
    return this.send('EVAL', text, '0', argument);
  }

  private receive(bytes: Buffer): void {
    this.bytes = Buffer.concat([this.bytes, bytes]);
    for (let found = decode(this.bytes, 0); found !== undefined; found = decode(this.bytes, 0)) {
      const [reply, end] = found;
      this.bytes = this.bytes.subarray(end);
      const isMessage = Array.isArray(reply) && String(reply[0]) === 'message';
      if (isMessage) this.onMessage?.(String(reply[1]));
      else this.waiting.shift()?.(reply);
    }
  }
}

/** @returns a value and where it ends; undefined while bytes are missing. */
function decode(bytes: Buffer, start: number): [value: unknown, end: number] | undefined {
  const lineEnd = bytes.indexOf('\r\n', start);
  if (lineEnd < 0) return undefined;
  const line = bytes.toString('utf8', start + 1, lineEnd);
  let end = lineEnd + 2;
  switch (bytes.toString('latin1', start, start + 1)) {
    case '-':
      return [new ErrorReply(line), end];
    case ':':
      return [Number(line), end];
    case '$': {
      const length = Number(line);
      if (length < 0) return [null, end];
      if (bytes.length < end + length + 2) return undefined;
      return [Buffer.from(bytes.subarray(end, end + length)), end + length + 2];
    }
    case '*': {
      const values: unknown[] = [];
      for (let i = 0; i < Number(line); i += 1) {
        const found = decode(bytes, end);
        if (found === undefined) return undefined;
        values.push(found[0]);
        end = found[1];
      }
      return [values, end];
    }
    default:
      return [line, end];
  }
}

/** How little a link needs: one server, without a password, and subscriptions that end with their connection. */
export class ToyLink implements redis.RedisLink {
  readonly keyPrefix = '';
  readonly isCluster = false;
  readonly publishCommand = 'PUBLISH';
  private readonly listeners: ((event: redis.LinkEvent) => void)[] = [];
  private connection: RespConnection | undefined;
  private isClosed = false;

  /** @param required - if WAIT follows each command. */
  constructor(
    private readonly port: number,
    private readonly required?: redis.RequiredReplicas,
  ) {}

  get unavailable(): redis.LinkFailure | undefined {
    if (this.isClosed) return redis.failureOfClient('rejected', 'the connection is closed');
    this.connection ??= new RespConnection(this.port, (event) => {
      if (event.kind === 'lost') this.connection = undefined;
      for (const listener of this.listeners) listener(event);
    });
    if (this.connection.isReady) return undefined;
    return redis.failureOfClient('not_executed', 'there is no connection');
  }

  evalsha(sha1: string, keys: readonly string[], args: Words, receiver: redis.ReplyReceiver) {
    this.send(receiver, 'EVALSHA', sha1, String(keys.length), ...keys, ...args);
  }

  eval(text: string, keys: readonly string[], args: Words, receiver: redis.ReplyReceiver) {
    this.send(receiver, 'EVAL', text, String(keys.length), ...keys, ...args);
  }

  get(key: string, receiver: redis.ReplyReceiver) {
    this.send(receiver, 'GET', key);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number) {
    this.send(undefined, 'SET', key, Buffer.concat(value), 'PX', String(expiryMs));
  }

  wait(required: redis.RequiredReplicas) {
    return new ToyLink(this.port, required);
  }

  scan(cursor: string, match: string, count: number, receiver: redis.ReplyReceiver) {
    const page = ['MATCH', match, 'COUNT', String(count), 'TYPE', 'string'];
    this.send(receiver, 'SCAN', cursor, ...page);
  }

  info(receiver: redis.ReplyReceiver) {
    this.send(receiver, 'INFO');
  }

  subscribe(onMessage: (channel: string) => void): redis.Subscriber {
    const connection = new RespConnection(this.port, () => undefined, redis.guarded(onMessage));
    return {
      subscribe: (channel) => connection.send('SUBSCRIBE', channel),
      unsubscribe: (channel) => connection.send('UNSUBSCRIBE', channel),
      close: () => connection.socket.destroy(),
    };
  }

  failureOf(error: unknown): redis.LinkFailure {
    if (error instanceof ErrorReply) return redis.failureOfReply(error.message);
    if (error instanceof redis.NotSentError)
      return redis.failureOfClient('not_executed', error.message);
    const kind = error instanceof redis.TooFewReplicasError ? 'unreplicated' : 'unknown';
    return redis.failureOfClient(kind, String(error));
  }

  onState(listener: (event: redis.LinkEvent) => void) {
    this.listeners.push(listener);
  }

  async close() {
    this.isClosed = true;
    this.connection?.socket.end();
  }

  private send(receiver: redis.ReplyReceiver | undefined, ...words: Words) {
    const { connection, required } = this;
    if (connection?.isReady !== true) throw new redis.NotSentError();
    const isText = words[0] === 'SCAN' || words[0] === 'INFO';
    const replied = connection.send(...words).then(isText ? textOf : undefined);
    const loss = required && lossAfter(connection, required);
    replied.then(
      async (reply) => receiver?.onReply(reply, connection.order, await loss),
      (error: unknown) => receiver?.onError(error, connection.order),
    );
  }
}

function textOf(reply: unknown): unknown {
  return Array.isArray(reply) ? reply.map(textOf) : String(reply);
}

async function lossAfter(connection: RespConnection, { count, timeoutMs }: redis.RequiredReplicas) {
  const waited = connection.send('WAIT', String(count), String(timeoutMs));
  const confirmed = await waited.then(Number, (error: unknown) => error);
  if (typeof confirmed !== 'number') return confirmed;
  return confirmed < count ? new redis.TooFewReplicasError(confirmed, count, timeoutMs) : undefined;
}
