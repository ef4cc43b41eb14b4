/** Open from the start; once closed, every caller waits until the test opens it again. */
export class Gate {
  #passage: Promise<void> = Promise.resolve();
  #open: () => void = () => undefined;

  /** One that is closed from the start. */
  static closed(): Gate {
    const gate = new Gate();
    gate.close();
    return gate;
  }

  close(): void {
    this.#passage = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  open(): void {
    this.#open();
  }

  pass(): Promise<void> {
    return this.#passage;
  }
}
