import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.util.Collector;

/**
 * Bench latency's job for Flink: the rows of Fabric's generator at its pace, counted by key, to a
 * socket. A line of standard input runs one: slots, splits, rows, rows a second, keys, the buffer
 * timeout in milliseconds (-1: Flink's default), and the port where the reader is. Each is answered
 * by a line, empty or what went wrong.
 */
public class Latency {
    static final long STEP_NS = 500_000;

    /** What travels. */
    public static class Row {
        public long split;
        public long row;
        public long key;
        public long ts;
        public long n;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String answer = "";
            try {
                run(line.split(" "));
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

    static void run(String[] facts) throws Exception {
        int slots = Integer.parseInt(facts[0]);
        int splits = Integer.parseInt(facts[1]);
        long timeoutMs = Long.parseLong(facts[5]);
        Configuration settings = new Configuration();
        settings.setString("taskmanager.numberOfTaskSlots", facts[0]);
        StreamExecutionEnvironment flink =
            StreamExecutionEnvironment.createLocalEnvironment(slots, settings);
        flink.getConfig().enableObjectReuse();
        if (timeoutMs >= 0) {
            flink.setBufferTimeout(timeoutMs);
        }
        long rows = Long.parseLong(facts[2]);
        Paced source = new Paced(rows, Long.parseLong(facts[3]), Long.parseLong(facts[4]));
        flink.addSource(source, Types.POJO(Row.class))
            .setParallelism(splits)
            .keyBy(row -> row.key, Types.LONG)
            .process(new Counting(), Types.POJO(Row.class))
            .addSink(new ToSocket(Integer.parseInt(facts[6])));
        flink.execute();
    }

    /** Rows of a split, each with the first step that is not before it is due. */
    public static class Paced extends RichParallelSourceFunction<Row> {
        private final long rows;
        private final long rate;
        private final long keys;
        private volatile boolean runs = true;

        Paced(long rows, long rate, long keys) {
            this.rows = rows;
            this.rate = rate;
            this.keys = keys;
        }

        @Override
        public void run(SourceContext<Row> out) {
            int split = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            int splits = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            long stream = mixed(mixed(0, 1), split);
            long end = Math.max(0, (rows - split + splits - 1) / splits);
            long startUs = nowUs();
            long begunNs = System.nanoTime();
            long row = 0;
            while (runs && row < end) {
                long steps = (System.nanoTime() - begunNs) / STEP_NS;
                long passedNs = steps * STEP_NS;
                long due = Math.floorDiv(passedNs * rate / 1_000_000_000 - split, splits) + 1;
                if (due <= row) {
                    long nextNs = begunNs + (steps + 1) * STEP_NS;
                    LockSupport.parkNanos(nextNs - System.nanoTime());
                    continue;
                }
                synchronized (out.getCheckpointLock()) {
                    for (; row < Math.min(due, end); row++) {
                        long number = row * splits + split;
                        long ts = startUs + number / rate * 1_000_000
                            + number % rate * 1_000_000 / rate;
                        out.collect(made(split, row, key(row, stream), ts));
                    }
                }
            }
        }

        @Override
        public void cancel() {
            runs = false;
        }

        private static Row made(long split, long row, long key, long ts) {
            Row made = new Row();
            made.split = split;
            made.row = row;
            made.key = key;
            made.ts = ts;
            return made;
        }

        private long key(long row, long stream) {
            return (mixed(mixed(row, stream), 1) >>> 32) * keys >>> 32;
        }
    }

    /** How many rows of its key there were with each row. */
    public static class Counting extends KeyedProcessFunction<Long, Row, Row> {
        private transient ValueState<Long> counts;

        @Override
        public void open(OpenContext context) {
            counts = getRuntimeContext().getState(new ValueStateDescriptor<>("n", Types.LONG));
        }

        @Override
        public void processElement(Row row, Context context, Collector<Row> out)
            throws Exception {
            Long before = counts.value();
            long n = before == null ? 1 : before + 1;
            counts.update(n);
            row.n = n;
            out.collect(row);
        }
    }

    /** Five words a row to the reader, at once. */
    public static class ToSocket extends RichSinkFunction<Row> {
        private final int port;
        private transient Socket socket;
        private transient OutputStream out;
        private transient ByteBuffer words;

        ToSocket(int port) {
            this.port = port;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            out = socket.getOutputStream();
            words = ByteBuffer.allocate(40).order(ByteOrder.LITTLE_ENDIAN);
        }

        @Override
        public void invoke(Row row, Context context) throws Exception {
            words.clear();
            words.putLong(row.split).putLong(row.row).putLong(row.key).putLong(row.ts);
            words.putLong(row.n);
            out.write(words.array());
        }

        @Override
        public void close() throws Exception {
            if (socket != null) {
                socket.close();
            }
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
