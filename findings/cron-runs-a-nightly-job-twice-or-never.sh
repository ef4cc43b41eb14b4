#!/usr/bin/env bash
# cron 4.4.0 (below @nestjs/schedule 12.0.2), node-cron 4.6.0, node-schedule 2.1.1, croner 11.0.1, Node 20.20: what one night with a
# change of the clock makes of a job that is due once.
#
# Tests of such nights take Berlin or New York, where the hour from 2 to 3 is left out. In Chile the clock changes at midnight, the
# very time of daily jobs, and on Lord Howe Island by half an hour. There `cron` runs a daily job twice in one night, also at a time
# that is another one's: midnight as 23:00 and 0:00 in autumn, on two dates, so that a key made of the date does not help; 2:15 as
# 1:45 and 2:45 in spring. node-cron and node-schedule leave the spring night out. croner is the only one of them whose readme has
# rules for both nights, and it keeps them; that of cron does not mention changes of the clock, that of node-cron only autumn.
#
# Seen:
#   America/Santiago, 0:00, clock goes back: cron 23:00 00:00; node-cron 00:00; node-schedule 00:00; croner 00:00
#   America/Santiago, 0:00, clock goes forward: cron 01:00; node-cron never; node-schedule never; croner 01:00
#   Australia/Lord_Howe, 2:15, clock goes forward: cron 01:45 02:45; node-cron never; node-schedule never; croner 02:30
#   Europe/Berlin, 2:30, clock goes back: cron 02:30; node-cron 02:30; node-schedule 02:30; croner 02:30
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund cron@4.4.0 node-cron@4.6.0 node-schedule@2.1.1 croner@11.0.1 @sinonjs/fake-timers@15.0.0
cat >seen.mjs <<'JS'
import { install } from '@sinonjs/fake-timers';
import { CronJob } from 'cron';
import { Cron } from 'croner';
import nodeCron from 'node-cron';
import nodeSchedule from 'node-schedule';

const schedulers = {
  cron(pattern, timeZone, onTick) {
    const job = CronJob.from({ cronTime: pattern, timeZone, onTick, start: true });
    return () => job.stop();
  },
  'node-cron'(pattern, timezone, run) {
    const job = nodeCron.schedule(pattern, run, { timezone });
    return () => job.stop();
  },
  'node-schedule'(rule, tz, run) {
    const job = nodeSchedule.scheduleJob({ rule, tz }, run);
    return () => job.cancel();
  },
  croner(pattern, timezone, run) {
    const job = new Cron(pattern, { timezone }, run);
    return () => job.stop();
  },
};
const QUARTER_OF_AN_HOUR = 15 * 60 * 1000;
for (const [timeZone, pattern, title, noon] of [
  ['America/Santiago', '0 0 * * *', '0:00, clock goes back', '2026-04-04T15:00:00Z'],
  ['America/Santiago', '0 0 * * *', '0:00, clock goes forward', '2026-09-05T16:00:00Z'],
  ['Australia/Lord_Howe', '15 2 * * *', '2:15, clock goes forward', '2026-10-03T01:30:00Z'],
  ['Europe/Berlin', '30 2 * * *', '2:30, clock goes back', '2026-10-24T10:00:00Z'],
]) {
  const time = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
  const seen = [];
  for (const [name, schedule] of Object.entries(schedulers)) {
    const clock = install({ now: new Date(noon) });
    const runs = [];
    const stop = schedule(pattern, timeZone, () => {
      runs.push(time.format(new Date()));
    });
    for (let hour = 0; hour < 24; hour += 0.25) await clock.tickAsync(QUARTER_OF_AN_HOUR);
    stop();
    clock.uninstall();
    seen.push(`${name} ${runs.join(' ') || 'never'}`);
  }
  console.log(`${timeZone}, ${title}: ${seen.join('; ')}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 120 node seen.mjs)
echo "as described"
