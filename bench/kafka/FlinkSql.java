import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * Bench kafka's jobs for Flink, in SQL, one after the other. Arguments are settings, as name=value.
 * Lines of standard input are statements; behind an empty one they run, and the last is waited for.
 * It says "first" when `seen` has its first row, then "done" when all is committed, or what failed.
 */
public class FlinkSql {
    static final AtomicBoolean SEEN = new AtomicBoolean();
    static final PrintStream ANSWERS = System.out;

    /** Gives back what it is given. */
    public static class Seen extends ScalarFunction {
        public Long eval(Long number) {
            if (!SEEN.get() && SEEN.compareAndSet(false, true)) {
                ANSWERS.println("first");
            }
            return number;
        }
    }

    public static void main(String[] settings) throws Exception {
        System.setOut(System.err); // whatever Flink prints is no answer
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        List<String> statements = new ArrayList<>();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            if (!line.isEmpty()) {
                statements.add(line);
                continue;
            }
            String answer = "done";
            try {
                run(settings, statements);
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer = cause.toString().lines().findFirst().orElse("it failed");
            }
            ANSWERS.println(answer);
            statements.clear();
        }
        System.exit(0);
    }

    static void run(String[] settings, List<String> statements) throws Exception {
        SEEN.set(false);
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        for (String setting : settings) {
            String[] parts = setting.split("=", 2);
            tables.getConfig().set(parts[0], parts[1]);
        }
        tables.createTemporarySystemFunction("seen", Seen.class);
        int last = statements.size() - 1;
        for (String statement : statements.subList(0, last)) {
            tables.executeSql(statement);
        }
        tables.executeSql(statements.get(last)).await();
    }
}
