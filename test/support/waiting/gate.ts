/** Open from the start; once closed, every caller waits until the test opens it again. */
export class Gate {
  #passage: Promise<void> = Promise.resolve();
  #open: () => void = () => undefined;

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
