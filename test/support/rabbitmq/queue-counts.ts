import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

const PROGRAM = 'queue-counts.erl';
const SOCKET = 'queue-counts';

/**
 * An extension of the broker: a client that connects and names a queue of the virtual host `/` receives the
 * number of ready messages, unacknowledged messages and consumers. One that names none receives what the broker has
 * done with the messages of all quorum queues. `rabbitmqctl` reports the same, but starts an Erlang for each call.
 */
const REPORT_COUNTS = `
Columns = [messages_ready, messages_unacknowledged, consumers],
OfQueue = fun(Name) ->
  case rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, Name)) of
    {ok, Found} -> [Count || {_, Count} <- rabbit_amqqueue:info(Found, Columns)];
    {error, not_found} -> []
  end
end,
Totals = [messages_delivered_total, messages_redelivered_total, messages_acknowledged_total,
  messages_dead_lettered_rejected_total, messages_dead_lettered_delivery_limit_total],
OfQuorumQueues = fun() ->
  Counters = [Of || {Labels, Of} <- maps:to_list(rabbit_global_counters:overview()),
    lists:member({queue_type, rabbit_quorum_queue}, Labels)],
  [lists:sum([maps:get(Total, Of, 0) || Of <- Counters]) || Total <- Totals]
end,
Tell = fun(Client) ->
  {ok, Line} = gen_tcp:recv(Client, 0),
  Counts = case string:trim(Line) of
    <<>> -> OfQuorumQueues();
    Name -> OfQueue(Name)
  end,
  gen_tcp:send(Client, lists:join(" ", [integer_to_list(Count) || Count <- Counts])),
  gen_tcp:close(Client)
end,
spawn(fun() ->
  file:delete("${SOCKET}"),
  {ok, Listener} = gen_tcp:listen(0, [binary, {ifaddr, {local, "${SOCKET}"}}, {packet, line}, {active, false}]),
  (fun Serve() ->
    {ok, Client} = gen_tcp:accept(Listener),
    spawn(fun() -> receive yours -> Tell(Client) end end) ! yours,
    Serve()
  end)()
end).
`;

/** For Erlang, which starts in the broker's folder. */
export const WITH_QUEUE_COUNTS = `-eval file:eval("${PROGRAM}")`;

export function writeQueueCounts(dir: string): void {
  // Left behind by a killed broker.
  rmSync(join(dir, SOCKET), { force: true });
  writeFileSync(join(dir, PROGRAM), REPORT_COUNTS);
}

/** A broker may accept clients before Erlang has started the program. */
export function hasQueueCounts(dir: string): boolean {
  return existsSync(join(dir, SOCKET));
}

/** @returns `undefined` if there is no such queue. */
export async function queueCounts(
  dir: string,
  queue: string,
): Promise<readonly [ready: number, unacked: number, consumers: number] | undefined> {
  const [ready, unacked, consumers] = await ask(dir, queue);
  return ready === undefined ? undefined : [ready, unacked!, consumers!];
}

/** What a broker has done with the messages of its quorum queues since it started. */
export interface QuorumTotals {
  /** The repeated deliveries among them. */
  readonly delivered: number;
  readonly redelivered: number;
  readonly acknowledged: number;
  /** Dead-lettered because a consumer rejected them. */
  readonly rejected: number;
  /** Dead-lettered because they were delivered too often. */
  readonly overLimit: number;
}

/** Needs RabbitMQ 3.10. */
export async function quorumTotals({ dir }: { readonly dir: string }): Promise<QuorumTotals> {
  const [delivered, redelivered, acknowledged, rejected, overLimit] = await ask(dir, '');
  if (overLimit === undefined) throw new Error('the broker does not count');
  return {
    delivered: delivered!,
    redelivered: redelivered!,
    acknowledged: acknowledged!,
    rejected: rejected!,
    overLimit,
  };
}

async function ask(dir: string, line: string): Promise<number[]> {
  const socket = connect(join(dir, SOCKET));
  socket.write(`${line}\n`);
  const counts = await text(socket);
  return counts === '' ? [] : counts.split(' ').map(Number);
}
