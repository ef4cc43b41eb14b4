import { Session, type Profiler } from 'node:inspector/promises';

/** Samples the stack of this process four thousand times a second. */
const INTERVAL_US = 250;

let session: Session | undefined;

export async function startProfile(): Promise<void> {
  session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: INTERVAL_US });
  await session.post('Profiler.start');
}

export async function stopProfile(): Promise<Profiler.Profile | undefined> {
  const result = await session?.post('Profiler.stop');
  session?.disconnect();
  session = undefined;
  return result?.profile;
}
