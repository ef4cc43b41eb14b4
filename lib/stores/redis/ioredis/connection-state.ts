import { errorMonitor } from 'node:events';
import { isEnd } from '../link/connection-errors.js';
import type { LinkEvent } from '../link/redis-link.js';
import type { LinkFailure } from '../link/send-failure.js';
import type { RedisClient } from './client-types.js';
import {
  closedAfter,
  describeFailure,
  isErrorReply,
  NoReplyError,
  unavailableAfter,
  WrongDatabaseError,
} from './error-classification.js';
import type { DatabaseCheck } from './selected-database.js';

type ConnectionError = Error & {
  readonly lastNodeError?: Error;
  readonly command?: { readonly name: string; readonly args: readonly unknown[] };
};

/**
 * Observes whether a client is connected. Without a connection no command is sent: ioredis would execute it later, when
 * no caller waits for it. The last error distinguishes a server that is down from a wrong password.
 */
export class ConnectionState {
  private lastError: Error | undefined;
  private hasBeenReady = false;
  private closed = false;

  /** @param reconnects - the client connects again after an end. */
  constructor(
    private readonly client: RedisClient,
    private readonly reconnects: boolean,
    private readonly database: DatabaseCheck | undefined,
    private readonly onState: (event: LinkEvent) => void,
  ) {
    client.on(errorMonitor, this.onError);
    client.on('ready', this.onReady);
    client.on('close', this.onClose);
  }

  get unavailable(): LinkFailure | undefined {
    const { status } = this.client;
    const isClosed = this.closed || (status === 'end' && !this.reconnects);
    if (isClosed) return closedAfter(this.lastError);
    // A client in state "wait" connects with its first command.
    if (status === 'ready' || status === 'wait') {
      const { database } = this;
      if (database === undefined || database.isVerified) return undefined;
      return unavailableAfter(database.error);
    }
    return unavailableAfter(this.lastError);
  }

  close(): void {
    this.closed = true;
    this.client.off(errorMonitor, this.onError);
    this.client.off('ready', this.onReady);
    this.client.off('close', this.onClose);
  }

  private readonly onError = (error: ConnectionError): void => {
    const { command } = error;
    if (command?.name === 'select' && isErrorReply(error)) {
      this.lastError = new WrongDatabaseError(Number(command.args[0]), describeFailure(error));
      return;
    }
    const cause = error.lastNodeError ?? error;
    // An earlier error may say why.
    if (isEnd(cause)) this.lastError ??= this.ended(cause);
    else this.lastError = cause;
  };

  private readonly onReady = (): void => {
    this.lastError = undefined;
    this.hasBeenReady = true;
    this.onState({ kind: 'ready' });
  };

  private readonly onClose = (): void => {
    if (!this.hasBeenReady) this.lastError ??= this.ended();
    this.onState({ kind: 'lost' });
  };

  private ended(error?: Error): Error {
    return this.hasBeenReady && error !== undefined ? error : noReplyError(this.client, error);
  }
}

/** @param error - undefined where the server has ended the connection without one. */
export function noReplyError(client: RedisClient, error?: Error): NoReplyError {
  const { options } = client as { readonly options?: { readonly tls?: object } };
  return new NoReplyError(options?.tls !== undefined, error?.message ?? 'without an error', {
    cause: error,
  });
}
