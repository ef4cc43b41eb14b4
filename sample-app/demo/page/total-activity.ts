import { type Activity, totalOf } from '../../src/monitoring/activity.controller.js';

/** The sum of what the processes at these addresses have counted. One that does not respond counts nothing. */
export async function totalActivity(urls: readonly URL[]): Promise<Activity> {
  const responses = urls.map((url) => read(url).catch(() => undefined));
  const activities = (await Promise.all(responses)).filter((activity) => activity !== undefined);
  return totalOf(activities.map((activity) => ({ ...activity, requests: [activity.requests] })));
}

/** Without a kept connection, which may belong to a process that was killed. */
async function read(url: URL): Promise<Activity> {
  const response = await fetch(new URL('activity', url), { headers: { connection: 'close' } });
  return (await response.json()) as Activity;
}
