/** A pause that can be cut short. A ring that nobody hears yet is kept for the next one who listens. */
export class Bell {
  private isRung = false;
  private wake: (() => void) | undefined;

  ring(): void {
    this.isRung = true;
    this.wake?.();
  }

  /** Resolves at the next ring, or after `ms` milliseconds. */
  async heardWithin(ms: number): Promise<void> {
    if (!this.isRung && ms > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.wake = undefined;
    }
    this.isRung = false;
  }
}
