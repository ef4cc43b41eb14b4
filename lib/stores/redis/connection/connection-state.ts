import { errorMonitor } from 'node:events';
import { nodeClock } from '../../../core/util/clock.js';
import { DeadlineTimer } from '../../../core/util/time.js';
import type { RedisClient } from './client-types.js';
import { describeFailure, isErrorReply, WrongDatabaseError } from './error-classification.js';
import type { SelectedDatabase } from './selected-database.js';
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
  private closed = false;

  /** @param reconnects - the client connects again after an end. */
  constructor(
    private readonly client: RedisClient,
    private readonly reconnects: boolean,
    /** Notified of each command, if stalled connections are replaced. */
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
