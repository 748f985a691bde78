import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
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
    static final long NO_ROW = 1L << 62;

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
        cluster = new MiniCluster(
            new MiniClusterConfiguration.Builder()
                .setConfiguration(settings)
                .setNumTaskManagers(2)
                .setNumSlotsPerTaskManager(2)
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
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer = cause.toString().lines().findFirst().orElse("it failed");
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    private String done(String[] request) throws Exception {
        switch (request[0]) {
            case "start":
                submit(Integer.parseInt(request[1]), false);
                return "";
            case "runs":
                check();
                return "";
            case "settle":
                settle(System.currentTimeMillis());
                return "";
            case "rescale":
                stop();
                long leftUs = nowUs();
                submit(Integer.parseInt(request[1]), false);
                return Long.toString(leftUs);
            case "facts":
                CompletedCheckpointStats newest = newest();
                return newest.getStateSize() + " " + newest.getEndToEndDuration();
            case "end":
                stop();
                submit(Integer.parseInt(request[1]), true);
                cluster.requestJobResult(job).get().toJobExecutionResult(
                    Rescale.class.getClassLoader());
                return "";
            default:
                throw new IllegalArgumentException(request[0]);
        }
    }

    private void submit(int tasks, boolean probes) throws Exception {
        StreamExecutionEnvironment flink =
            StreamExecutionEnvironment.getExecutionEnvironment(settings);
        flink.setParallelism(tasks);
        flink.setMaxParallelism(128);
        flink.getConfig().enableObjectReuse();
        flink.addSource(new Paced(keys, rate, probes), Types.POJO(Row.class)).uid("source")
            .keyBy(row -> row.key, Types.LONG)
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
            new Thread(() -> remove(before)).start();
        }
    }

    private static void remove(String savepoint) {
        try (Stream<Path> files = Files.walk(Path.of(URI.create(savepoint)))) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (Exception error) {
            System.err.println(error);
        }
    }

    private void check() throws Exception {
        if (cluster.getJobStatus(job).get().isTerminalState()) {
            cluster.requestJobResult(job).get().toJobExecutionResult(
                Rescale.class.getClassLoader());
            throw new IllegalStateException("the job has ended");
        }
    }

    private void settle(long nowMs) throws Exception {
        for (;;) {
            check();
            CompletedCheckpointStats newest = newest();
            if (newest != null && newest.getTriggerTimestamp() > nowMs) {
                return;
            }
            Thread.sleep(50);
        }
    }

    private CompletedCheckpointStats newest() throws Exception {
        return cluster.getExecutionGraph(job).get().getCheckpointStatsSnapshot().getHistory()
            .getLatestCompletedCheckpoint();
    }

    /** What travels: splits of those that fill are behind the others; -1: ask for the key. */
    public static class Row {
        public long split;
        public long row;
        public long key;
    }

    /** Splits in turn: rows that fill as fast as they are taken, then those that are due. */
    public static class Paced extends RichParallelSourceFunction<Row>
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
            if (context.isRestored()) {
                positions.get().forEach(splits::add);
                return;
            }
            int task = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            int tasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            for (long split = task; split < SPLITS; split += tasks) {
                splits.add(new long[] {split, 0, 0});
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            List<long[]> now = new ArrayList<>();
            splits.forEach(split -> now.add(split.clone()));
            positions.update(now);
        }

        @Override
        public void run(SourceContext<Row> out) {
            if (probes) {
                for (long[] split : splits) {
                    for (long key = split[0]; key < keys; key += SPLITS) {
                        out.collect(made(-1, 0, key));
                    }
                }
                return;
            }
            boolean fills = true;
            while (runs && fills) {
                fills = false;
                for (long[] split : splits) {
                    fills |= fill(out, split);
                }
            }
            long[] begunNs = new long[splits.size()];
            for (int i = 0; i < begunNs.length; i++) {
                begunNs[i] = System.nanoTime()
                    - splits.get(i)[2] * SPLITS * 1_000_000_000 / rate;
            }
            while (runs) {
                for (int i = 0; i < begunNs.length; i++) {
                    flow(out, splits.get(i), begunNs[i]);
                }
                LockSupport.parkNanos(STEP_NS);
            }
        }

        private boolean fill(SourceContext<Row> out, long[] split) {
            synchronized (out.getCheckpointLock()) {
                for (int i = 0; i < CHUNK; i++, split[1]++) {
                    long key = split[1] * SPLITS + split[0];
                    if (key >= keys) {
                        return false;
                    }
                    out.collect(made(split[0] + SPLITS, split[1], key));
                }
            }
            return true;
        }

        private void flow(SourceContext<Row> out, long[] split, long begunNs) {
            long passedUs = (System.nanoTime() - begunNs) / 1_000;
            long due = Math.floorDiv(passedUs * rate / 1_000_000 - split[0], SPLITS) + 1;
            long stream = mixed(mixed(SEED, 1), split[0]);
            synchronized (out.getCheckpointLock()) {
                for (; runs && split[2] < due; split[2]++) {
                    long key = (mixed(mixed(split[2], stream), 1) >>> 32) * keys >>> 32;
                    out.collect(made(split[0], split[2], key));
                }
            }
        }

        @Override
        public void cancel() {
            runs = false;
        }

        private static Row made(long split, long row, long key) {
            Row made = new Row();
            made.split = split;
            made.row = row;
            made.key = key;
            return made;
        }
    }

    /** Count, sum and value of each key; who asks for one has it in a file. */
    public static class Keeping extends KeyedProcessFunction<Long, Row, Long> {
        private final String folder;
        private transient ValueState<Tuple3<Long, Long, byte[]>> state;
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
            pool = new byte[1 << 24];
            new Random().nextBytes(pool);
        }

        @Override
        public void processElement(Row row, Context context, Collector<Long> out)
                throws Exception {
            Tuple3<Long, Long, byte[]> known = state.value();
            if (row.split < 0) {
                tell(row.key, known);
                return;
            }
            if (ticks == null) {
                ticks = new Ticks(folder, getRuntimeContext().getTaskInfo()
                    .getIndexOfThisSubtask());
            }
            ticks.begin(row);
            at = (at + 7919) % (pool.length - VALUE_BYTES);
            byte[] value = Arrays.copyOfRange(pool, at, at + VALUE_BYTES);
            long number = row.split < SPLITS ? row.row * SPLITS + row.split : row.key;
            state.update(known == null
                ? Tuple3.of(1L, number, value)
                : Tuple3.of(known.f0 + 1, known.f1 + number, value));
            ticks.end();
        }

        private void tell(long key, Tuple3<Long, Long, byte[]> known) throws Exception {
            if (found == null) {
                String name = folder + "/" + nowUs() + "-"
                    + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() + ".found";
                found = new BufferedOutputStream(new FileOutputStream(name), 1 << 20);
            }
            ByteBuffer words = ByteBuffer.allocate(32).order(ByteOrder.LITTLE_ENDIAN).putLong(key);
            if (known == null) {
                words.putLong(0).putLong(0).putLong(0);
            } else {
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

        void begin(Row row) {
            if (words[2] == 0) {
                words[0] = nowUs();
                Arrays.fill(words, 3, 3 + SPLITS, NO_ROW);
                Arrays.fill(words, 3 + SPLITS, words.length, -1);
            }
            words[2]++;
            if (row.split < SPLITS) {
                int first = 3 + (int) row.split;
                words[first] = Math.min(words[first], row.row);
                words[first + SPLITS] = Math.max(words[first + SPLITS], row.row);
            }
        }

        void end() throws Exception {
            words[1] = nowUs();
            if (words[1] - words[0] >= TICK_US) {
                flush();
            }
        }

        void close() throws Exception {
            if (words[2] > 0) {
                flush();
            }
            out.close();
        }

        private void flush() throws Exception {
            ByteBuffer tick = ByteBuffer.allocate(8 * words.length).order(ByteOrder.LITTLE_ENDIAN);
            tick.asLongBuffer().put(words);
            out.write(tick.array());
            words[2] = 0;
        }
    }

    static long nowUs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
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
