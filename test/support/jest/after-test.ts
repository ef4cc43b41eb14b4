import { afterEach } from '@jest/globals';

const endings: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Called after the test, the last one first. */
export function afterTest(end: () => unknown): void {
  endings.push(end);
}

/** Stopped after the test, the last one first. */
export function closeAfterTest<T extends { stop(): Promise<void> }>(resource: T): T {
  afterTest(() => resource.stop());
  return resource;
}
