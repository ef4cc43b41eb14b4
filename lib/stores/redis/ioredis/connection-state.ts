import { errorMonitor } from 'node:events';
import { nodeClock } from '../../../core/util/clock.js';
import { DeadlineTimer } from '../../../core/util/time.js';
import type { RedisClient } from './client-types.js';
import {
  describeFailure,
  isEnd,
  isErrorReply,
  NoReplyError,
  WrongDatabaseError,
} from './error-classification.js';
import type { DatabaseCheck } from './selected-database.js';
import type { StallDetector } from './stall-detector.js';

type ConnectionError = Error & {
  readonly lastNodeError?: Error;
  readonly command?: { readonly name: string; readonly args: readonly unknown[] };
};

export interface UnavailableReason {
  readonly reason: 'not_connected' | 'closed';
  readonly error: Error | undefined;
}

/**
 * Observes whether a client is connected. Without a connection no command is sent: ioredis would execute it later, when
 * no caller waits for it. The last error distinguishes a server that is down from a wrong password.
 */
export class ConnectionState {
  /** Deadlines of commands without a reply. */
  readonly deadlines = new DeadlineTimer(nodeClock);
  private lastError: Error | undefined;
  private hasBeenReady = false;
  private closed = false;

  /** @param reconnects - the client connects again after an end. */
  constructor(
    private readonly client: RedisClient,
    private readonly reconnects: boolean,
    /** Notified of each command, if stalled connections are replaced. */
    readonly stallDetector?: StallDetector,
    private readonly database?: DatabaseCheck,
  ) {
    client.on(errorMonitor, this.onError);
    client.on('ready', this.onReady);
    client.on('close', this.onClose);
  }

  get unavailable(): UnavailableReason | undefined {
    const { status } = this.client;
    const isClosed = this.closed || (status === 'end' && !this.reconnects);
    if (isClosed) return { reason: 'closed', error: this.lastError };
    // A client in state "wait" connects with its first command.
    if (status === 'ready' || status === 'wait') {
      const { database } = this;
      if (database === undefined || database.isVerified) return undefined;
      return { reason: 'not_connected', error: database.error };
    }
    return { reason: 'not_connected', error: this.lastError };
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
  };

  private readonly onClose = (): void => {
    if (!this.hasBeenReady) this.lastError ??= this.ended();
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
