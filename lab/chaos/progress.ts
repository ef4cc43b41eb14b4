import type { ClientLog } from '../faults/client-log.js';

/**
 * Is shown a run while it goes on.
 *
 * @returns what ends it.
 */
export type Watch = (
  clients: ClientLog,
  load: { readonly keysDone: number },
  trouble: () => Readonly<Record<string, number>>,
) => () => void;

/**
 * Writes a line to standard error, again and again.
 *
 * @returns what ends it.
 */
export function everyMs(pauseMs: number, line: () => readonly string[]): () => void {
  const startedAt = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    process.stderr.write(`${[`${seconds} s`, ...line()].join('  ')}\n`);
  }, pauseMs);
  return () => {
    clearInterval(timer);
  };
}

export const showProgress: Watch = (clients, load, trouble) => {
  let before = 0;
  return everyMs(1_000, () => {
    const { requests } = clients;
    const pace = requests - before;
    before = requests;
    return [
      `${requests} requests`,
      `${pace}/s`,
      `${load.keysDone} keys`,
      ...Object.entries(trouble()).map(([name, count]) => `${count} ${name}`),
    ];
  });
};
