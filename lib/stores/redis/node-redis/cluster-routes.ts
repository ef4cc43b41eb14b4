import { nodeClock } from '../../../core/util/clock.js';
import type { Commands } from '../link/commands.js';
import { keySlot } from '../link/key-slot.js';
import type { Redirection, ReplyReceiver, RequiredReplicas } from '../link/redis-link.js';
import { ReplicatedCommands } from '../link/replicated-commands.js';
import type { MismatchListener } from '../link/reply-order.js';
import { scanInTurn } from '../link/scan-in-turn.js';
import { NotSentError } from '../link/send-failure.js';
import { ClientCommands, type Owned } from './client-commands.js';
import type { ClusterClient, ClusterNode, SingleClient } from './client-types.js';
import { isErrorReply } from './error-classification.js';

/** Between two reads of a cluster's slot map. */
const REFRESH_PAUSE_MS = 100;

/** How the connections of a cluster are used. */
export interface NodeSettings {
  readonly keyPrefix: string;
  readonly onMismatch: MismatchListener;
  /** If they are the store's own. */
  readonly owned: Owned | undefined;
  /** If WAIT follows each command. */
  readonly required: RequiredReplicas | undefined;
}

/**
 * The connections of a cluster, each used directly: the client of the cluster would keep a command while the server of
 * its slot is away, and says of no reply on which connection it arrived.
 */
export class ClusterRoutes {
  private readonly direct = new WeakMap<SingleClient, ClientCommands>();
  private readonly commands = new WeakMap<SingleClient, Commands>();
  private refreshedAt = -Infinity;

  constructor(
    private readonly cluster: ClusterClient,
    private readonly settings: NodeSettings,
  ) {}

  get isReady(): boolean {
    return this.cluster.isOpen && this.cluster.masters.some(isReady);
  }

  /** @throws {@link NotSentError} without a connection to a server. */
  commandsOf(key: string): Commands {
    const { cluster, settings } = this;
    const mapped = cluster.slots[keySlot(settings.keyPrefix + key)]?.master;
    if (isReady(mapped)) return this.commandsTo(mapped.client);
    this.connect(mapped);
    // Any server redirects to the one that has the slot.
    return this.any();
  }

  any(): Commands {
    const ready = this.cluster.masters.filter(isReady);
    const node = ready[Math.floor(Math.random() * ready.length)];
    if (node === undefined) throw new NotSentError();
    return this.commandsTo(node.client);
  }

  /** @throws its error, if it names a server that only a later attempt can reach. */
  redirect({ error }: Redirection): Pick<Commands, 'eval'> {
    const text = isErrorReply(error) ? error.message : '';
    const [, code, address = ''] = /^(MOVED|ASK) \d{1,5} (\S+)/.exec(text) ?? [];
    if (code === undefined) throw error;
    if (code === 'MOVED') this.refresh();
    const node = this.cluster.nodeByAddress.get(address);
    if (!isReady(node)) {
      this.connect(node);
      throw error;
    }
    if (code === 'MOVED') return this.commandsTo(node.client);
    // Where WAIT follows, the next attempt goes to the server that has the key then.
    if (this.settings.required !== undefined) throw error;
    const direct = this.directTo(node.client);
    return { eval: (...command) => direct.evalAsking(...command) };
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    const { masters, slots } = this.cluster;
    const nodes = masters.map((node) => ({
      name: nameOf(node),
      commandsOf: () => {
        if (isReady(node)) return this.commandsTo(node.client);
        this.connect(node);
        throw new NotSentError();
      },
    }));
    const names = slots.map((of) => of && [nameOf(of.master)]);
    scanInTurn(nodes, names, cursor, match, count, receiver);
  }

  private commandsTo(client: SingleClient): Commands {
    const known = this.commands.get(client);
    if (known !== undefined) return known;
    const { required } = this.settings;
    const direct = this.directTo(client);
    const commands = required === undefined ? direct : new ReplicatedCommands(direct, required);
    this.commands.set(client, commands);
    return commands;
  }

  private directTo(client: SingleClient): ClientCommands {
    const { keyPrefix, onMismatch, owned } = this.settings;
    let direct = this.direct.get(client);
    if (direct === undefined) {
      direct = new ClientCommands(client, keyPrefix, onMismatch, owned);
      this.direct.set(client, direct);
    }
    return direct;
  }

  /** @param node - undefined if the slot map names none. */
  private connect(node: ClusterNode | undefined): void {
    const { cluster } = this;
    if (node !== undefined && node.client === undefined) {
      // The next attempt to send finds out.
      Promise.resolve(cluster.nodeClient(node)).catch(() => undefined);
    } else {
      this.refresh();
    }
  }

  private refresh(): void {
    const now = nodeClock.now();
    if (now - this.refreshedAt < REFRESH_PAUSE_MS) return;
    this.refreshedAt = now;
    const { cluster } = this;
    // The cluster emits what goes wrong.
    cluster._slots?.rediscover?.(cluster.masters.find(isReady)?.client).catch(() => undefined);
  }
}

function nameOf({ host, port }: ClusterNode): string {
  return `${host}:${String(port)}`;
}

type ReadyNode = ClusterNode & { readonly client: SingleClient };

function isReady(node: ClusterNode | undefined): node is ReadyNode {
  return node?.client?.isReady === true;
}
