import type { Fault } from '../plan.js';
import type { Random } from '../../../test/integration/differential/random.js';
import type { Command } from './commands.js';
import type { RecordServer } from './record-server.js';
import { INPUT } from './scheduler.js';
import type { SimulatedProcess } from './simulated-process.js';
import type { World } from './world.js';

/** How often a fault of the network strikes while it lasts. */
const CHANCE = 0.3;

/** How much later than a command its copies arrive. */
const COPIES = [
  [0, 1, 3, 6],
  [10, 20, 50, 300, 1_500],
];

type Deliver = (reply: unknown, isRejection: boolean) => void;

/** Carries commands and replies, and loses, copies, delays and reorders them while faults last. */
export class Network {
  private readonly lasting = new Map<Fault, { readonly until: number; readonly slot: number }>();

  constructor(
    private readonly world: World,
    private readonly random: Random,
  ) {}

  /** @param slot - of the process whose commands it troubles; -1 for all. */
  trouble(fault: Fault, ms: number, slot: number): void {
    this.lasting.set(fault, { until: this.world.scheduler.now + ms, slot });
  }

  heal(): void {
    this.lasting.clear();
  }

  carry(process: SimulatedProcess, command: Command, server: RecordServer, deliver: Deliver): void {
    const now = process.time();
    const { recordKey } = command;
    this.world.history.add('send', process.name, command.name, recordKey);
    if (this.isInBlackHole(process, command) || this.strikes('lost request', process, command)) {
      return;
    }
    let arrivesAt = now + this.latency();
    if (this.strikes('slow network', process, command)) arrivesAt += this.random.integer(5, 150);
    if (this.strikes('late copy', process, command)) arrivesAt += this.random.integer(100, 1_200);
    this.arrive(process, command, server, arrivesAt, deliver);
    if (this.strikes('copy', process, command)) {
      for (const delays of COPIES) {
        const copyAt = arrivesAt + this.random.pick(delays);
        this.arrive(process, command, server, copyAt, deliver);
      }
    }
  }

  /** What a server sends by itself. */
  push(process: SimulatedProcess, recordKey: string, run: () => void): void {
    const command = { name: 'watch', recordKey } as Command;
    if (this.isInBlackHole(process, command) || this.strikes('lost reply', process, command)) {
      return;
    }
    process.receive(this.world.scheduler.now + this.latency(), () => {
      if (!process.contact('reply')) run();
    });
  }

  private arrive(
    process: SimulatedProcess,
    command: Command,
    server: RecordServer,
    at: number,
    deliver: Deliver,
  ): void {
    const { world } = this;
    const { scheduler } = world;
    const delayedSince = scheduler.now + 3;
    scheduler.at(at, INPUT, () => {
      // Whatever it does now, its sender does not expect any more.
      if (scheduler.now > delayedSince) this.touch(process);
      if (!server.isUp) {
        this.touch(process);
        return;
      }
      if (command.name !== 'watch' && this.strikes('rejection', process, command)) {
        this.reply(process, command, undefined, true, deliver);
        return;
      }
      server.execute(process, command, (reply) => {
        this.reply(process, command, reply, false, deliver);
      });
    });
  }

  private reply(
    process: SimulatedProcess,
    command: Command,
    reply: unknown,
    isRejection: boolean,
    deliver: Deliver,
  ): void {
    if (this.isInBlackHole(process, command) || this.strikes('lost reply', process, command)) {
      return;
    }
    let at = this.world.scheduler.now + this.latency();
    if (this.strikes('slow network', process, command)) at += this.random.integer(5, 150);
    process.receive(at, () => {
      deliver(reply, isRejection);
    });
  }

  private latency(): number {
    return 0.1 + this.random.fraction() * 1.5;
  }

  private isInBlackHole(process: SimulatedProcess, command: Command): boolean {
    if (process.store.blackHoleUntil <= this.world.scheduler.now) return false;
    this.world.fault('black hole', process, command.recordKey);
    return true;
  }

  private strikes(fault: Fault, process: SimulatedProcess, { recordKey }: Command): boolean {
    const lasting = this.lasting.get(fault);
    if (lasting === undefined || lasting.until < this.world.scheduler.now) return false;
    if (lasting.slot >= 0 && lasting.slot !== process.slot) return false;
    if (!this.random.chance(fault === 'copy' ? 2 * CHANCE : CHANCE)) return false;
    this.world.fault(fault, process, recordKey);
    return true;
  }

  private touch(process: SimulatedProcess): void {
    process.troubledAt = Math.max(process.troubledAt, this.world.scheduler.now);
  }
}
