import { createHook } from 'node:async_hooks';

/**
 * How many promises are created until the one that `work` returns is settled: the least of several counts, because other
 * work of the process may create some meanwhile.
 */
export async function promisesOf(work: () => Promise<unknown>): Promise<number> {
  const counts: number[] = [];
  while (counts.length < 10) counts.push(await countPromises(work));
  return Math.min(...counts);
}

function countPromises(work: () => Promise<unknown>): Promise<number> {
  return new Promise((resolve, reject) => {
    let promises = 0;
    const counting = createHook({
      init: (_id, type) => {
        if (type === 'PROMISE') promises += 1;
      },
    }).enable();
    work().then(() => {
      counting.disable();
      resolve(promises);
    }, reject);
  });
}
