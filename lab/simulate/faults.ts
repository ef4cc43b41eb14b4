import type { Fault } from './plan.js';
import type { SimulatedProcess } from './world/simulated-process.js';
import type { World } from './world/world.js';

/** Faults of the network, which last for a while. */
const LASTING: readonly Fault[] = [
  'lost request',
  'lost reply',
  'copy',
  'late copy',
  'slow network',
  'rejection',
];

type Inject = (world: World, process: SimulatedProcess, leaseMs: number) => void;

/** Faults that strike at an instant. Those of clients and operations are their own. */
const STRIKING: Partial<Record<Fault, Inject>> = {
  pause: (world, process, leaseMs) => {
    const { faultRandom: random, scheduler } = world;
    // It does something in between.
    if (process.busyUntil + leaseMs / 2 > scheduler.now) return;
    world.fault('pause', process);
    process.pause(random.integer(1, random.pick([leaseMs / 4, 2 * leaseMs, 4 * leaseMs])));
  },
  drain: (world, process) => {
    world.fault('drain', process);
    void process.drain();
  },
  cut: (world, process) => {
    world.fault('cut', process);
    process.store.cut(world.faultRandom.integer(0, 100));
  },
  'black hole': (world, process, leaseMs) => {
    const ms = world.faultRandom.integer(5, 2 * leaseMs);
    process.store.blackHoleUntil = world.scheduler.now + ms;
  },
  'clock step': (world, _, leaseMs) => {
    world.fault('clock step');
    const { faultRandom: random, servers } = world;
    // It is one store: an engine takes the clocks of its shards for one. Back also by minutes.
    const ms = random.integer(1, random.pick([leaseMs, 8 * leaseMs]));
    const step = random.chance(0.6) ? ms : -ms * random.pick([1, 1, 100]);
    for (const server of servers) server.stepClock(step);
  },
  restart: (world) => {
    world.fault('restart');
    world.faultRandom.pick(world.servers).restart(world.faultRandom.integer(2, 150), true);
  },
  'data loss': (world) => {
    world.fault('data loss');
    world.faultRandom.pick(world.servers).restart(world.faultRandom.integer(2, 150), false);
  },
  failover: (world) => {
    const { faultRandom: random } = world;
    const server = world.servers.find(({ canFailOver }) => canFailOver)!;
    if (!server.isUp) return;
    world.fault('failover');
    server.failOver(random.integer(1, 60), random.integer(2, 100));
  },
};

/** Troubles a world until it is healed. */
export function trouble(world: World): void {
  const { faultRandom: random, plan, scheduler } = world;
  for (const fault of plan.faults) {
    const strike = () => {
      if (world.isHealed) return;
      const living = world.living();
      const { leaseMs } = random.pick(plan.operations);
      if (LASTING.includes(fault)) {
        const slot = random.chance(0.4) ? -1 : random.integer(0, plan.processes - 1);
        world.network.trouble(fault, random.integer(5, 300), slot);
      } else if (living.length > 0) {
        STRIKING[fault]?.(world, random.pick(living), leaseMs);
      }
      scheduler.after(random.integer(1, 2 * everyMs(world, fault)), strike);
    };
    if (LASTING.includes(fault) || fault in STRIKING) {
      scheduler.after(random.integer(1, everyMs(world, fault)), strike);
    }
  }
}

/** Much of it, and there would be nothing left to promise. */
function everyMs({ plan }: World, fault: Fault): number {
  const isRare = fault === 'failover' || fault === 'drain' || fault === 'data loss';
  return isRare ? plan.everyMs * 4 : plan.everyMs;
}
