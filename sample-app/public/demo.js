/** What `npm start` runs around the API: its processes, its store, and the faults of the buttons. */
class Demo extends EventTarget {
  #events;
  #state = { processes: [], isStoreAvailable: true, executions: [] };
  /** Whether there was a connection. */
  isPresent = false;

  /** Follows the executions of one order. */
  watch(key) {
    this.#events?.close();
    this.#state = { ...this.#state, executions: [] };
    const events = new EventSource(`demo/events?${new URLSearchParams({ key })}`);
    this.#events = events;
    events.addEventListener('message', ({ data }) => {
      this.#state = JSON.parse(data);
      this.isPresent = true;
      this.dispatchEvent(new Event('change'));
    });
    events.addEventListener('error', () => this.dispatchEvent(new Event('change')));
  }

  get isConnected() {
    return this.isPresent && this.#events.readyState === EventSource.OPEN;
  }

  /** The API runs alone, and has no route of the demo. */
  get isAbsent() {
    return !this.isPresent && this.#events.readyState === EventSource.CLOSED;
  }

  get isStoreAvailable() {
    return this.#state.isStoreAvailable;
  }

  get executions() {
    return this.#state.executions;
  }

  get facts() {
    const { processes, isStoreAvailable, storeIsBackAt } = this.#state;
    const states = processes.map(({ name, pid, isRunning }) => [
      `Process ${name}`,
      isRunning ? `runs (pid ${pid})` : 'starts again',
    ]);
    return {
      ...Object.fromEntries(states),
      Store: isStoreAvailable ? 'available' : `away until ${clock(storeIsBackAt)}`,
    };
  }

  /** Injects a fault into the next request with this key. */
  plan(fault, key) {
    return this.#send('demo/faults', { fault, key });
  }

  /** Takes the store away, or gives it back. */
  switchStore() {
    return this.#send('demo/store', { isAvailable: !this.isStoreAvailable });
  }

  #send(url, command) {
    const headers = { 'content-type': 'application/json' };
    return fetch(url, { method: 'POST', headers, body: JSON.stringify(command) });
  }
}

const clock = (at) => new Date(at).toLocaleTimeString('en-GB');

export const demo = new Demo();
