import type { ServerResponse } from 'node:http';

type Listener = () => void;
type On = (this: ServerResponse, event: string, listener: Listener) => ServerResponse;

/**
 * Who waits for a response to drain, which it was told to do by a `write` that was not passed on.
 *
 * Middleware with an `on` of its own (compression) leads such listeners to a stream of its own, where an
 * event of the response does not reach them: those are remembered here.
 */
export class DrainWaiters {
  private readonly led: Listener[] = [];
  private isWatching = true;

  constructor(private readonly response: ServerResponse) {
    const own = Object.getOwnPropertyDescriptor(response, 'on')?.value as On | undefined;
    if (own === undefined) return;
    const on: On = (event, listener) => {
      if (this.isWatching && event === 'drain') this.led.push(listener);
      return own.call(response, event, listener);
    };
    Object.assign(response, { on });
  }

  /** From now on the response says itself when it has drained. */
  leave(): void {
    this.isWatching = false;
  }

  wake(): void {
    const { response, led } = this;
    const reached = response.listeners('drain');
    // A listener of `once` arrives here in its wrapper, which runs once whoever calls it.
    const others = led.filter((listener) => !reached.includes(unwrapped(listener)));
    response.emit('drain');
    for (const listener of others) listener.call(response);
  }
}

function unwrapped(listener: Listener & { listener?: Listener }): Listener {
  return listener.listener ?? listener;
}
