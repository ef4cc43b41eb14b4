/** What the handlers have done: whether a replay is one shows here, and nowhere else. */
export class Effects {
  count = 0;
  private held: (() => void)[] = [];

  untilReleased(): Promise<void> {
    return new Promise((resolve) => this.held.push(resolve));
  }

  release(): void {
    for (const resolve of this.held.splice(0)) resolve();
  }
}
