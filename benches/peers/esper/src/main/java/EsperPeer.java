import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.LongBuffer;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Finds a pattern with Esper's match_recognize, and says how long it took.
 *
 * <pre>java -cp … EsperPeer FILE STEPS MISSED WITHIN RUNS</pre>
 *
 * FILE holds little-endian longs: all times, then all keys, then all values, in the order in which events of one
 * time follow one another. Event i of a match has a value for which (value + i) % 10 >= MISSED; a match is STEPS
 * events of a key, one right after the other, the last less than WITHIN after the first. Prints a line of JSON: the
 * seconds of each run, and the number of matches with the sums of their first and last times.
 */
public final class EsperPeer {
    private static long matches, first, last;

    public static void main(String[] arguments) throws Exception {
        LongBuffer columns = columns(Path.of(arguments[0]));
        int steps = Integer.parseInt(arguments[1]), missed = Integer.parseInt(arguments[2]);
        String query = query(steps, missed, Long.parseLong(arguments[3]));
        StringBuilder seconds = new StringBuilder();
        for (int run = 0; run < Integer.parseInt(arguments[4]); run++) {
            matches = first = last = 0;
            long begun = System.nanoTime();
            run(query, columns);
            seconds.append(run == 0 ? "" : ", ").append((System.nanoTime() - begun) / 1e9);
        }
        System.out.printf("{\"seconds\": [%s], \"answer\": [%d, %d, %d]}%n", seconds, matches, first, last);
    }

    private static LongBuffer columns(Path path) throws Exception {
        try (FileChannel file = FileChannel.open(path)) {
            return file.map(FileChannel.MapMode.READ_ONLY, 0, file.size()).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
        }
    }

    private static String query(int steps, int missed, long within) {
        String pattern = IntStream.range(0, steps).mapToObj(step -> "S" + step).collect(Collectors.joining(" "));
        String conditions = IntStream.range(0, steps)
            .mapToObj(step -> "S%1$d as (S%1$d.value + %1$d) %% 10 >= %2$d".formatted(step, missed))
            .collect(Collectors.joining(", "));
        return """
            select * from Event match_recognize (
                partition by key measures S0.t as began, S%d.t as ended
                all matches after match skip to next row
                pattern (%s) define %s and S%d.t < S0.t + %dL
            )""".formatted(steps - 1, pattern, conditions, steps - 1, within);
    }

    private static void run(String query, LongBuffer columns) throws Exception {
        Configuration configuration = new Configuration();
        String[] names = {"t", "key", "value"};
        configuration.getCommon().addEventType("Event", names, new Object[] {long.class, long.class, long.class});
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        EPRuntime runtime = EPRuntimeProvider.getRuntime("peer", configuration);
        runtime.initialize();
        var compiled = EPCompilerProvider.getCompiler().compile(query, new CompilerArguments(configuration));
        var statement = runtime.getDeploymentService().deploy(compiled).getStatements()[0];
        statement.addListener((found, gone, of, by) -> {
            for (EventBean match : found) {
                matches++;
                first += (Long) match.get("began");
                last += (Long) match.get("ended");
            }
        });
        EPEventService events = runtime.getEventService();
        int rows = columns.limit() / 3;
        for (int row = 0; row < rows; row++) {
            Object[] event = {columns.get(row), columns.get(rows + row), columns.get(2 * rows + row)};
            events.sendEventObjectArray(event, "Event");
        }
        runtime.destroy();
    }
}
