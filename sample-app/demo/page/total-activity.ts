import type { Activity } from '../../src/monitoring/activity.controller.js';

/** The sum of what the processes at these addresses have counted. One that does not respond counts nothing. */
export async function totalActivity(urls: readonly URL[]): Promise<Activity> {
  const responses = urls.map((url) => read(url).catch(() => undefined));
  const activities = (await Promise.all(responses)).filter((activity) => activity !== undefined);
  const requests: Record<string, number> = {};
  for (const [result, count] of activities.flatMap((one) => Object.entries(one.requests))) {
    requests[result] = (requests[result] ?? 0) + count;
  }
  const sumOf = (name: 'running' | 'waiting' | 'takeovers') =>
    activities.reduce((sum, activity) => sum + activity[name], 0);
  return {
    requests,
    running: sumOf('running'),
    waiting: sumOf('waiting'),
    takeovers: sumOf('takeovers'),
  };
}

/** Without a kept connection, which may belong to a process that was killed. */
async function read(url: URL): Promise<Activity> {
  const response = await fetch(new URL('activity', url), { headers: { connection: 'close' } });
  return (await response.json()) as Activity;
}
