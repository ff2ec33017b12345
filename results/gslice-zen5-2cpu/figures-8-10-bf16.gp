# Draws figures-8-10-bf16.svg from figures-8-10-bf16.dat, in this folder: gnuplot figures-8-10-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key inside top center horizontal maxcols 3 samplen 1.5
set terminal svg size 1200,840 noenhanced background 'white'
set output 'figures-8-10-bf16.svg'
set multiplot layout 2,2 title 'Figures 8 to 10: one to four groups, bf16'
set title 'throughput'
set xlabel ''
set ylabel 'answers/s'
set logscale y
set offsets graph 0, graph 0, graph 0.15, graph 0
unset logscale x
set yrange [6.74984:*]
set xtics autofreq rotate by -20
plot 'figures-8-10-bf16.dat' index 0 using 2:xtic(1) with histograms lc rgb '#4477AA' title 'default', \
       'figures-8-10-bf16.dat' index 0 using 3:xtic(1) with histograms lc rgb '#EE6677' title 'slab', \
       'figures-8-10-bf16.dat' index 0 using 4:xtic(1) with histograms lc rgb '#228833' title 'tuned slices', \
       'figures-8-10-bf16.dat' index 0 using 5:xtic(1) with histograms lc rgb '#CCBB44' title 'equal slices'
set title 'mean time of a batch'
set xlabel ''
set ylabel 'batch ms'
set logscale y
set offsets graph 0, graph 0, graph 0.15, graph 0
unset logscale x
set yrange [0.0350183:*]
set xtics autofreq rotate by -20
plot 'figures-8-10-bf16.dat' index 1 using 2:xtic(1) with histograms lc rgb '#4477AA' title 'default', \
       'figures-8-10-bf16.dat' index 1 using 3:xtic(1) with histograms lc rgb '#EE6677' title 'slab', \
       'figures-8-10-bf16.dat' index 1 using 4:xtic(1) with histograms lc rgb '#228833' title 'tuned slices', \
       'figures-8-10-bf16.dat' index 1 using 5:xtic(1) with histograms lc rgb '#CCBB44' title 'equal slices'
set title 'utilisation efficacy (answers/s per ms)'
set xlabel ''
set ylabel 'GUE'
set logscale y
set offsets graph 0, graph 0, graph 0.15, graph 0
unset logscale x
set yrange [0.117382:*]
set xtics autofreq rotate by -20
plot 'figures-8-10-bf16.dat' index 2 using 2:xtic(1) with histograms lc rgb '#4477AA' title 'default', \
       'figures-8-10-bf16.dat' index 2 using 3:xtic(1) with histograms lc rgb '#EE6677' title 'slab', \
       'figures-8-10-bf16.dat' index 2 using 4:xtic(1) with histograms lc rgb '#228833' title 'tuned slices', \
       'figures-8-10-bf16.dat' index 2 using 5:xtic(1) with histograms lc rgb '#CCBB44' title 'equal slices'
unset multiplot
unset output
