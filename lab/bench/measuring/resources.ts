/** What has been started, to be ended in reverse. */
export class Resources {
  private readonly endings: (() => unknown)[] = [];

  defer(ending: () => unknown): void {
    this.endings.push(ending);
  }

  async close(): Promise<void> {
    for (const ending of this.endings.splice(0).reverse()) await ending();
  }
}

/** Ends what `use` has started, however it ends itself. */
export async function withResources<T>(use: (resources: Resources) => Promise<T>): Promise<T> {
  const resources = new Resources();
  try {
    return await use(resources);
  } finally {
    await resources.close();
  }
}
