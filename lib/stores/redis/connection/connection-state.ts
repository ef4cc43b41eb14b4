import { errorMonitor } from 'node:events';
import { DeadlineTimer } from '../../../core/util/deadlines.js';
import type { RedisClient } from './client-types.js';
import { describeFailure, isErrorReply, WrongDatabaseError } from './error-classification.js';
import type { SelectedDatabase } from './selected-database.js';
import type { StallDetector } from './stall-detector.js';

/** With what ioredis adds. */
type ConnectionError = Error & {
  readonly lastNodeError?: Error;
  readonly command?: { readonly name: string; readonly args: readonly unknown[] };
};

/** Why a command is not even sent. */
export interface UnavailableReason {
  readonly reason: 'not_connected' | 'closed';
  /** What the connection last failed of, if anything. */
  readonly error: Error | undefined;
}

/**
 * Knows whether a client is connected, only by looking.
 *
 * A command that is given to a client without a connection lands in its offline queue and is executed at
 * some later time, which nobody waits for: so it is held back. And who only sees "not connected" cannot
 * tell a server that is down from a password that is wrong.
 */
export class ConnectionState {
  /** For what is sent and not answered in time. */
  readonly deadlines = new DeadlineTimer();
  private lastError: Error | undefined;
  private closed = false;

  /** @param reconnects - an end is not for good: somebody connects again. */
  constructor(
    private readonly client: RedisClient,
    private readonly reconnects: boolean,
    /** Told of what is sent, where somebody replaces a silent connection. */
    readonly stallDetector?: StallDetector,
    private readonly database?: SelectedDatabase,
  ) {
    client.on(errorMonitor, this.onError);
    client.on('ready', this.onReady);
  }

  get unavailable(): UnavailableReason | undefined {
    const { status } = this.client;
    const isClosed = this.closed || (status === 'end' && !this.reconnects);
    if (isClosed) return { reason: 'closed', error: this.lastError };
    // A client that waits for its first command connects when it gets one.
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
  }

  private readonly onError = (error: ConnectionError): void => {
    const { command } = error;
    this.lastError =
      command?.name === 'select' && isErrorReply(error)
        ? new WrongDatabaseError(Number(command.args[0]), describeFailure(error))
        : (error.lastNodeError ?? error);
  };

  private readonly onReady = (): void => {
    this.lastError = undefined;
  };
}
