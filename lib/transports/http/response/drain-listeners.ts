import type { ServerResponse } from 'node:http';

type Listener = () => void;
type On = (this: ServerResponse, event: string, listener: Listener) => ServerResponse;

/**
 * The `drain` listeners and callbacks of a `write` that was not passed on; also listeners that middleware with its own
 * `on` (compression) redirects to its own stream, where events of the response do not reach them.
 */
export class DrainListeners {
  /** Whether a `write` has returned `false`. */
  isAwaited = false;
  private readonly redirected: Listener[] = [];
  private callbacks: Listener[] = [];
  private isWatching = true;
  private isEmitting = false;

  constructor(private readonly response: ServerResponse) {
    const own = Object.getOwnPropertyDescriptor(response, 'on')?.value as On | undefined;
    if (own === undefined) return;
    const on: On = (event, listener) => {
      if (this.isWatching && event === 'drain') this.redirected.push(listener);
      return own.call(response, event, listener);
    };
    Object.assign(response, { on });
  }

  /** @param isWatching - the response does not emit `drain` itself. */
  watch(isWatching: boolean): void {
    this.isWatching = isWatching;
  }

  /** Adds a listener of the response's own `drain`, which {@link emit} does not call. */
  onOwn(listener: Listener): void {
    const { isWatching } = this;
    this.isWatching = false;
    this.response.on('drain', () => {
      if (!this.isEmitting) listener();
    });
    this.isWatching = isWatching;
  }

  add(callback: Listener | undefined): void {
    this.isAwaited = true;
    if (callback !== undefined) this.callbacks.push(callback);
  }

  /** Calls the callbacks, but not the listeners. */
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
    // `once` passes its wrapper here, which runs only once.
    const others = redirected.filter((listener) => !reached.includes(unwrapped(listener)));
    this.isEmitting = true;
    try {
      response.emit('drain');
      for (const listener of others) listener.call(response);
    } finally {
      this.isEmitting = false;
    }
  }
}

function unwrapped(listener: Listener & { listener?: Listener }): Listener {
  return listener.listener ?? listener;
}
