import type { ServerResponse } from 'node:http';

type Listener = () => void;
type On = (this: ServerResponse, event: string, listener: Listener) => ServerResponse;

/**
 * Who waits for a response to drain, or for a callback, because of a `write` that was not passed on.
 *
 * Middleware with an `on` of its own (compression) leads listeners to a stream of its own, where an event
 * of the response does not reach them: those are remembered here.
 */
export class DrainListeners {
  /** Whether somebody has been told to wait. */
  isAwaited = false;
  private readonly redirected: Listener[] = [];
  private callbacks: Listener[] = [];
  private isWatching = true;

  constructor(private readonly response: ServerResponse) {
    const own = Object.getOwnPropertyDescriptor(response, 'on')?.value as On | undefined;
    if (own === undefined) return;
    const on: On = (event, listener) => {
      if (this.isWatching && event === 'drain') this.redirected.push(listener);
      return own.call(response, event, listener);
    };
    Object.assign(response, { on });
  }

  /** Whether the response does not say itself when it has drained. */
  watch(isWatching: boolean): void {
    this.isWatching = isWatching;
  }

  /** Notes who has to wait until {@link emit}. */
  add(callback: Listener | undefined): void {
    this.isAwaited = true;
    if (callback !== undefined) this.callbacks.push(callback);
  }

  /** Calls those who wait for a callback alone. */
  callBack(): void {
    const callbacks = this.callbacks;
    this.callbacks = [];
    this.isAwaited = false;
    for (const callback of callbacks) callback();
  }

  emit(): void {
    const { response, redirected } = this;
    this.callBack();
    const reached = response.listeners('drain');
    // A listener of `once` arrives here in its wrapper, which runs once whoever calls it.
    const others = redirected.filter((listener) => !reached.includes(unwrapped(listener)));
    response.emit('drain');
    for (const listener of others) listener.call(response);
  }
}

/** Whether listeners to the response may be led elsewhere. */
export function redirectsListeners(response: ServerResponse): boolean {
  return Object.hasOwn(response, 'on');
}

function unwrapped(listener: Listener & { listener?: Listener }): Listener {
  return listener.listener ?? listener;
}
