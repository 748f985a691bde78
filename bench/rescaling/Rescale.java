import java.io.*;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStats;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.FileUtils;

/**
 * Bench rescale's job for Flink: each key once, then the rows of Fabric's generator at its pace;
 * count, sum and a value of each key in RocksDB. Arguments: a folder, keys, rows a second, the
 * milliseconds between two checkpoints, and the format of savepoints if it is not the native one.
 * Each line of standard input is answered by one that begins with "ok", or says what went wrong:
 * "start N", "runs", "settle" (a checkpoint from now on), "rescale N" (microseconds at which it had
 * stopped), "facts" (bytes and milliseconds of the newest checkpoint), "end N" (each key to files).
 */
public class Rescale {
    static final int SPLITS = 4;
    static final int SEED = 5;
    static final int VALUE_BYTES = 100;
    static final long STEP_NS = 5_000_000;
    static final int CHUNK = 1_024;
    /** Split (of those that fill: behind the others; -1: to ask for the key), row, key. */
    static final TypeInformation<Tuple3<Long, Long, Long>> ROW =
        Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);

    private final String folder;
    private final long keys;
    private final long rate;
    private final SavepointFormatType format;
    private final Configuration settings = new Configuration();
    private final MiniCluster cluster;
    private JobID job;
    private String savepoint;

    Rescale(String[] arguments) throws Exception {
        folder = arguments[0];
        keys = Long.parseLong(arguments[1]);
        rate = Long.parseLong(arguments[2]);
        format = SavepointFormatType.valueOf(arguments.length > 4 ? arguments[4] : "NATIVE");
        settings.setString("state.backend.type", "rocksdb");
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("execution.checkpointing.interval", arguments[3] + " ms");
        settings.setString("execution.checkpointing.dir", "file://" + folder + "/checkpoints");
        settings.setString("restart-strategy.type", "none");
        settings.setString("io.tmp.dirs", folder + "/local");
        settings.setString("taskmanager.memory.managed.size", "512 mb");
        settings.setString("rest.bind-port", "0");
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
            .setConfiguration(settings).setNumTaskManagers(2).setNumSlotsPerTaskManager(2)
            .build());
        cluster.start();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        Rescale bench = new Rescale(arguments);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String answer;
            try {
                answer = "ok " + bench.done(line.split(" "));
            } catch (Exception error) {
                Throwable cause = Stream.iterate((Throwable) error, Objects::nonNull,
                    Throwable::getCause).reduce(error, (one, next) -> next);
                answer = cause.toString().lines().findFirst().orElse("it failed");
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    private String done(String[] request) throws Exception {
        int tasks = request.length > 1 ? Integer.parseInt(request[1]) : 0;
        switch (request[0]) {
            case "start" -> submit(tasks, false);
            case "runs" -> check();
            case "settle" -> settle(System.currentTimeMillis());
            case "rescale" -> {
                stop();
                long leftUs = nowUs();
                submit(tasks, false);
                return Long.toString(leftUs);
            }
            case "facts" -> {
                return newest().getStateSize() + " " + newest().getEndToEndDuration();
            }
            case "end" -> {
                stop();
                submit(tasks, true);
                result();
            }
            default -> throw new IllegalArgumentException(request[0]);
        }
        return "";
    }

    private void submit(int tasks, boolean probes) throws Exception {
        StreamExecutionEnvironment flink =
            StreamExecutionEnvironment.getExecutionEnvironment(settings);
        flink.setParallelism(tasks);
        flink.setMaxParallelism(128);
        flink.getConfig().enableObjectReuse();
        flink.addSource(new Paced(keys, rate, probes), ROW).uid("source")
            .keyBy(row -> row.f2, Types.LONG)
            .process(new Keeping(folder), Types.LONG).uid("state")
            .sinkTo(new DiscardingSink<>()).uid("sink");
        JobGraph graph = flink.getStreamGraph().getJobGraph();
        if (savepoint != null) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(savepoint));
        }
        job = graph.getJobID();
        cluster.submitJob(graph).get();
    }

    /** Stops with a savepoint; the one before that is of no use any more. */
    private void stop() throws Exception {
        String before = savepoint;
        savepoint = cluster.stopWithSavepoint(job, folder + "/savepoints", false, format).get();
        cluster.requestJobResult(job).get();
        if (before != null) {
            FileUtils.deleteDirectoryQuietly(new File(URI.create(before)));
        }
    }

    private void check() throws Exception {
        if (cluster.getJobStatus(job).get().isTerminalState()) {
            result();
            throw new IllegalStateException("the job has ended");
        }
    }

    /** Waits until the job ends; raises what it failed with. */
    private void result() throws Exception {
        cluster.requestJobResult(job).get().toJobExecutionResult(Rescale.class.getClassLoader());
    }

    private void settle(long nowMs) throws Exception {
        while (newest() == null || newest().getTriggerTimestamp() <= nowMs) {
            check();
            Thread.sleep(50);
        }
    }

    private CompletedCheckpointStats newest() throws Exception {
        return cluster.getExecutionGraph(job).get().getCheckpointStatsSnapshot().getHistory()
            .getLatestCompletedCheckpoint();
    }

    /** Splits in turn: rows that fill as fast as they are taken, then those that are due. */
    public static class Paced extends RichParallelSourceFunction<Tuple3<Long, Long, Long>>
            implements CheckpointedFunction {
        private final long keys;
        private final long rate;
        private final boolean probes;
        private final List<long[]> splits = new ArrayList<>();
        private transient ListState<long[]> positions;
        private volatile boolean runs = true;

        Paced(long keys, long rate, boolean probes) {
            this.keys = keys;
            this.rate = rate;
            this.probes = probes;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            positions = context.getOperatorStateStore().getListState(
                new ListStateDescriptor<>("positions", long[].class));
            TaskInfo task = getRuntimeContext().getTaskInfo();
            for (int i = 0; i < SPLITS && !context.isRestored(); i++) {
                if (i % task.getNumberOfParallelSubtasks() == task.getIndexOfThisSubtask()) {
                    splits.add(new long[] {i, 0, 0});
                }
            }
            positions.get().forEach(splits::add);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            List<long[]> now = new ArrayList<>();
            splits.forEach(split -> now.add(split.clone()));
            positions.update(now);
        }

        @Override
        public void run(SourceContext<Tuple3<Long, Long, Long>> out) {
            if (probes) {
                for (long[] split : splits) {
                    for (long key = split[0]; key < keys; key += SPLITS) {
                        out.collect(Tuple3.of(-1L, 0L, key));
                    }
                }
                return;
            }
            while (runs && splits.stream().filter(split -> fill(out, split)).count() > 0) {
                // the next rows of each
            }
            long[] begunNs = new long[splits.size()];
            for (int i = 0; i < begunNs.length; i++) {
                begunNs[i] = System.nanoTime() - splits.get(i)[2] * SPLITS * 1_000_000_000 / rate;
            }
            while (runs) {
                for (int i = 0; i < begunNs.length; i++) {
                    flow(out, splits.get(i), begunNs[i]);
                }
                LockSupport.parkNanos(STEP_NS);
            }
        }

        private boolean fill(SourceContext<Tuple3<Long, Long, Long>> out, long[] split) {
            synchronized (out.getCheckpointLock()) {
                for (int i = 0; i < CHUNK; i++, split[1]++) {
                    long key = split[1] * SPLITS + split[0];
                    if (key >= keys) {
                        return false;
                    }
                    out.collect(Tuple3.of(split[0] + SPLITS, split[1], key));
                }
            }
            return true;
        }

        private void flow(SourceContext<Tuple3<Long, Long, Long>> out, long[] split, long begunNs) {
            long passedUs = (System.nanoTime() - begunNs) / 1_000;
            long due = Math.floorDiv(passedUs * rate / 1_000_000 - split[0], SPLITS) + 1;
            long stream = mixed(mixed(SEED, 1), split[0]);
            synchronized (out.getCheckpointLock()) {
                for (; runs && split[2] < due; split[2]++) {
                    long key = (mixed(mixed(split[2], stream), 1) >>> 32) * keys >>> 32;
                    out.collect(Tuple3.of(split[0], split[2], key));
                }
            }
        }

        @Override
        public void cancel() {
            runs = false;
        }
    }

    /** Count, sum and value of each key; who asks for one has it in a file. */
    public static class Keeping extends KeyedProcessFunction<Long, Tuple3<Long, Long, Long>, Long> {
        private final String folder;
        private transient ValueState<Tuple3<Long, Long, byte[]>> state;
        private transient int task;
        private transient byte[] pool;
        private transient int at;
        private transient Ticks ticks;
        private transient OutputStream found;

        Keeping(String folder) {
            this.folder = folder;
        }

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("state",
                Types.TUPLE(Types.LONG, Types.LONG, Types.PRIMITIVE_ARRAY(Types.BYTE))));
            task = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            pool = new byte[1 << 24];
            new Random().nextBytes(pool);
        }

        @Override
        public void processElement(
                Tuple3<Long, Long, Long> row, Context context, Collector<Long> out)
                throws Exception {
            Tuple3<Long, Long, byte[]> known = state.value();
            if (row.f0 < 0) {
                tell(row.f2, known);
                return;
            }
            if (ticks == null) {
                ticks = new Ticks(folder, task);
            }
            ticks.begin(row.f0, row.f1);
            at = (at + 7919) % (pool.length - VALUE_BYTES);
            byte[] value = Arrays.copyOfRange(pool, at, at + VALUE_BYTES);
            long number = row.f0 < SPLITS ? row.f1 * SPLITS + row.f0 : row.f2;
            state.update(known == null
                ? Tuple3.of(1L, number, value)
                : Tuple3.of(known.f0 + 1, known.f1 + number, value));
            ticks.end();
        }

        private void tell(long key, Tuple3<Long, Long, byte[]> known) throws Exception {
            if (found == null) {
                String name = folder + "/" + nowUs() + "-" + task + ".found";
                found = new BufferedOutputStream(new FileOutputStream(name), 1 << 20);
            }
            ByteBuffer words = ByteBuffer.allocate(32).order(ByteOrder.LITTLE_ENDIAN).putLong(key);
            if (known != null) {
                words.putLong(known.f0).putLong(known.f1).putLong(known.f2.length);
            }
            found.write(words.array());
        }

        @Override
        public void close() throws Exception {
            if (ticks != null) {
                ticks.close();
            }
            if (found != null) {
                found.close();
            }
        }
    }

    /** The file of a task that says when it worked on which rows; see `Ticks` in pauses.py. */
    static class Ticks {
        static final long TICK_US = 10_000;
        private final OutputStream out;
        private final long[] words = new long[3 + 2 * SPLITS];

        Ticks(String folder, int task) throws Exception {
            String name = task + "-" + nowUs() * 1_000 + ".ticks";
            out = new FileOutputStream(folder + "/ticks/" + name);
        }

        void begin(long split, long row) {
            if (words[2] == 0) {
                words[0] = nowUs();
                Arrays.fill(words, 3, 3 + SPLITS, 1L << 62);
                Arrays.fill(words, 3 + SPLITS, words.length, -1);
            }
            words[2]++;
            if (split < SPLITS) {
                int first = 3 + (int) split;
                words[first] = Math.min(words[first], row);
                words[first + SPLITS] = Math.max(words[first + SPLITS], row);
            }
        }

        void end() throws Exception {
            words[1] = nowUs();
            if (words[1] - words[0] >= TICK_US) {
                flush();
            }
        }

        void close() throws Exception {
            flush();
            out.close();
        }

        private void flush() throws Exception {
            if (words[2] == 0) {
                return;
            }
            ByteBuffer tick = ByteBuffer.allocate(8 * words.length).order(ByteOrder.LITTLE_ENDIAN);
            tick.asLongBuffer().put(words);
            out.write(tick.array());
            words[2] = 0;
        }
    }

    static long nowUs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    /** SplitMix64, as Fabric's generator mixes. */
    static long mixed(long number, long stream) {
        long z = (number + stream) * 0x9E3779B97F4A7C15L;
        z ^= z >>> 30;
        z *= 0xBF58476D1CE4E5B9L;
        z ^= z >>> 27;
        z *= 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }
}
