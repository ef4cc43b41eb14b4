/** Whether `work` is done, and did not fail, within `ms` milliseconds. Never rejects. */
export function isDoneWithin(ms: number, work: Promise<unknown> | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, false);
    const settled = (isDone: boolean) => () => {
      clearTimeout(timer);
      resolve(isDone);
    };
    Promise.resolve(work).then(settled(true), settled(false));
  });
}
