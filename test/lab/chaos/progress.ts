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

/** A line on standard error every second. */
export const showProgress: Watch = (clients, load, trouble) => {
  const startedAt = performance.now();
  let before = 0;
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    const { requests } = clients;
    const done = [
      `${seconds} s`,
      `${requests} requests`,
      `${requests - before}/s`,
      `${load.keysDone} keys`,
      ...Object.entries(trouble()).map(([name, count]) => `${count} ${name}`),
    ];
    before = requests;
    process.stderr.write(`${done.join('  ')}\n`);
  }, 1_000);
  return () => {
    clearInterval(timer);
  };
};
